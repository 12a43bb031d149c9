"""Files that commands write: a folder that is made for one is no surprise."""

from groupnoise.cli.options import check_output


def test_a_folder_that_is_to_be_made_is_said(tmp_path, capsys):
    check_output(tmp_path / "answers.csv")
    assert capsys.readouterr().err == ""
    check_output(tmp_path / "new" / "answers.csv")
    assert f"the folder {tmp_path / 'new'} is not there and will be made" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
